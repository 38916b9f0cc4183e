/*
** lua_names.h -- the functions of Lua's C API that the library calls, each with its type: one row a function.
** _(result, name, parameters, arguments, return). Functions of "..." are written out in lua_table.c.
*/
#define TY_LUA_NAMES(_) \
  _(int, luaL_argerror, (lua_State * L, int i, const char *text), (L, i, text), return ) \
  _(lua_Integer, luaL_checkinteger, (lua_State * L, int i), (L, i), return ) \
  _(const char *, luaL_checklstring, (lua_State * L, int i, size_t *n), (L, i, n), return ) \
  _(lua_Number, luaL_checknumber, (lua_State * L, int i), (L, i), return ) \
  _(int, luaL_checkoption, (lua_State * L, int i, const char *def, const char *const *list), \
    (L, i, def, list), return ) \
  _(void, luaL_checkstack, (lua_State * L, int n, const char *text), (L, n, text), ) \
  _(void, luaL_checktype, (lua_State * L, int i, int type), (L, i, type), ) \
  _(void *, luaL_checkudata, (lua_State * L, int i, const char *name), (L, i, name), return ) \
  _(int, luaL_loadbuffer, (lua_State * L, const char *p, size_t n, const char *name), \
    (L, p, n, name), return ) \
  _(int, luaL_loadstring, (lua_State * L, const char *s), (L, s), return ) \
  _(int, luaL_newmetatable, (lua_State * L, const char *name), (L, name), return ) \
  _(lua_State *, luaL_newstate, (void), (), return ) \
  _(void, luaL_openlibs, (lua_State * L), (L), ) \
  _(lua_Integer, luaL_optinteger, (lua_State * L, int i, lua_Integer def), (L, i, def), return ) \
  _(lua_Number, luaL_optnumber, (lua_State * L, int i, lua_Number def), (L, i, def), return ) \
  _(int, luaL_ref, (lua_State * L, int t), (L, t), return ) \
  _(void, luaL_unref, (lua_State * L, int t, int ref), (L, t, ref), ) \
  _(void, luaL_where, (lua_State * L, int level), (L, level), ) \
  _(void, lua_call, (lua_State * L, int n, int results), (L, n, results), ) \
  _(int, lua_checkstack, (lua_State * L, int n), (L, n), return ) \
  _(void, lua_close, (lua_State * L), (L), ) \
  _(void, lua_concat, (lua_State * L, int n), (L, n), ) \
  _(int, lua_cpcall, (lua_State * L, lua_CFunction f, void *p), (L, f, p), return ) \
  _(void, lua_createtable, (lua_State * L, int n, int m), (L, n, m), ) \
  _(int, lua_dump, (lua_State * L, lua_Writer w, void *p), (L, w, p), return ) \
  _(int, lua_error, (lua_State * L), (L), return ) \
  _(int, lua_gc, (lua_State * L, int what, int data), (L, what, data), return ) \
  _(void, lua_getfenv, (lua_State * L, int i), (L, i), ) \
  _(void, lua_getfield, (lua_State * L, int i, const char *k), (L, i, k), ) \
  _(lua_Hook, lua_gethook, (lua_State * L), (L), return ) \
  _(int, lua_gethookcount, (lua_State * L), (L), return ) \
  _(int, lua_gethookmask, (lua_State * L), (L), return ) \
  _(int, lua_getinfo, (lua_State * L, const char *what, lua_Debug *ar), (L, what, ar), return ) \
  _(int, lua_getmetatable, (lua_State * L, int i), (L, i), return ) \
  _(int, lua_getstack, (lua_State * L, int level, lua_Debug *ar), (L, level, ar), return ) \
  _(void, lua_gettable, (lua_State * L, int i), (L, i), ) \
  _(int, lua_gettop, (lua_State * L), (L), return ) \
  _(const char *, lua_getupvalue, (lua_State * L, int i, int n), (L, i, n), return ) \
  _(void, lua_insert, (lua_State * L, int i), (L, i), ) \
  _(int, lua_iscfunction, (lua_State * L, int i), (L, i), return ) \
  _(int, lua_isyieldable, (lua_State * L), (L), return ) \
  _(int, lua_isnumber, (lua_State * L, int i), (L, i), return ) \
  _(int, lua_isstring, (lua_State * L, int i), (L, i), return ) \
  _(int, lua_isuserdata, (lua_State * L, int i), (L, i), return ) \
  _(lua_State *, lua_newstate, (lua_Alloc f, void *p), (f, p), return ) \
  _(lua_State *, lua_newthread, (lua_State * L), (L), return ) \
  _(void *, lua_newuserdata, (lua_State * L, size_t n), (L, n), return ) \
  _(int, lua_next, (lua_State * L, int i), (L, i), return ) \
  _(size_t, lua_objlen, (lua_State * L, int i), (L, i), return ) \
  _(int, lua_pcall, (lua_State * L, int n, int results, int handler), (L, n, results, handler), \
    return ) \
  _(void, lua_pushboolean, (lua_State * L, int v), (L, v), ) \
  _(void, lua_pushcclosure, (lua_State * L, lua_CFunction f, int n), (L, f, n), ) \
  _(void, lua_pushinteger, (lua_State * L, lua_Integer v), (L, v), ) \
  _(void, lua_pushlightuserdata, (lua_State * L, void *p), (L, p), ) \
  _(void, lua_pushlstring, (lua_State * L, const char *s, size_t n), (L, s, n), ) \
  _(void, lua_pushnil, (lua_State * L), (L), ) \
  _(void, lua_pushnumber, (lua_State * L, lua_Number v), (L, v), ) \
  _(void, lua_pushstring, (lua_State * L, const char *s), (L, s), ) \
  _(int, lua_pushthread, (lua_State * L), (L), return ) \
  _(void, lua_pushvalue, (lua_State * L, int i), (L, i), ) \
  _(const char *, lua_pushvfstring, (lua_State * L, const char *fmt, va_list ap), (L, fmt, ap), \
    return ) \
  _(int, lua_rawequal, (lua_State * L, int i, int k), (L, i, k), return ) \
  _(void, lua_rawget, (lua_State * L, int i), (L, i), ) \
  _(void, lua_rawgeti, (lua_State * L, int i, int n), (L, i, n), ) \
  _(void, lua_rawset, (lua_State * L, int i), (L, i), ) \
  _(void, lua_rawseti, (lua_State * L, int i, int n), (L, i, n), ) \
  _(void, lua_remove, (lua_State * L, int i), (L, i), ) \
  _(void, lua_replace, (lua_State * L, int i), (L, i), ) \
  _(int, lua_resume, (lua_State * L, int n), (L, n), return ) \
  _(int, lua_setfenv, (lua_State * L, int i), (L, i), return ) \
  _(void, lua_setfield, (lua_State * L, int i, const char *k), (L, i, k), ) \
  _(int, lua_sethook, (lua_State * L, lua_Hook f, int mask, int n), (L, f, mask, n), return ) \
  _(int, lua_setmetatable, (lua_State * L, int i), (L, i), return ) \
  _(void, lua_settop, (lua_State * L, int i), (L, i), ) \
  _(const char *, lua_setupvalue, (lua_State * L, int i, int n), (L, i, n), return ) \
  _(int, lua_status, (lua_State * L), (L), return ) \
  _(int, lua_toboolean, (lua_State * L, int i), (L, i), return ) \
  _(lua_CFunction, lua_tocfunction, (lua_State * L, int i), (L, i), return ) \
  _(lua_Integer, lua_tointeger, (lua_State * L, int i), (L, i), return ) \
  _(const char *, lua_tolstring, (lua_State * L, int i, size_t *n), (L, i, n), return ) \
  _(lua_Number, lua_tonumber, (lua_State * L, int i), (L, i), return ) \
  _(const void *, lua_topointer, (lua_State * L, int i), (L, i), return ) \
  _(lua_State *, lua_tothread, (lua_State * L, int i), (L, i), return ) \
  _(void *, lua_touserdata, (lua_State * L, int i), (L, i), return ) \
  _(int, lua_type, (lua_State * L, int i), (L, i), return ) \
  _(const char *, lua_typename, (lua_State * L, int type), (L, type), return ) \
  _(void *, lua_upvalueid, (lua_State * L, int i, int n), (L, i, n), return ) \
  _(void, lua_upvaluejoin, (lua_State * L, int i, int n, int k, int m), (L, i, n, k, m), ) \
  _(void, lua_xmove, (lua_State * from, lua_State * to, int n), (from, to, n), ) \
  _(int, lua_yield, (lua_State * L, int n), (L, n), return ) \
  _(int, luaJIT_setmode, (lua_State * L, int i, int mode), (L, i, mode), return )
