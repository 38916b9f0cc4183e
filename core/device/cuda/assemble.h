/*
** assemble.h -- PTX text to machine code (a cubin), and machine code that is kept on disk.
*/
#ifndef TY_CUDA_ASSEMBLE_H
#define TY_CUDA_ASSEMBLE_H

#include "base/text.h"

/* --- assemble.c */

/* Who assembles, for which processor and driver: what code depends on besides its text. */
const char *ty_cuda_assembler(void);
/* The code of a text. It is to be freed by ty_mem_free. False: it is refused, as `log` says, or out of memory. Any
** thread may ask; a context of the device is current there. */
bool ty_cuda_assemble(const Text *text, char **code, size_t *n, char *log, size_t room);

/* --- late.c: on a thread of its own */

typedef struct Assembly Assembly;
/* Takes the text over. NULL: there is no such thread, and the text is the caller's still. */
Assembly *ty_assembly_begin(Text *text);
/* Whether it is done; wait: it is then. */
bool ty_assembly_done(Assembly *a, bool wait);
const char *ty_assembly_code(const Assembly *a, size_t *n); /* of one that is done; NULL: refused */
const Text *ty_assembly_text(const Assembly *a);
void ty_assembly_drop(Assembly *a);
void ty_assembly_settle(void); /* waits until all that was begun is done */

/* --- store.c */

/* Numbers of a text, as assembled by `with`. */
typedef struct StoreKey {
  u64 a, b;
} StoreKey;
StoreKey ty_store_key(const Text *text, const char *with);
/* The code that was kept under a key, to be freed by ty_mem_free. False: there is none that is whole. */
bool ty_store_get(StoreKey k, char **code, size_t *n);
/* Keeps it, where there is a folder for it. */
void ty_store_put(StoreKey k, const char *code, size_t n);
/* Removes it: the driver does not take it. */
void ty_store_remove(StoreKey k);

typedef struct StoreCounts {
  i64 found, missed, written, removed;
} StoreCounts;
StoreCounts ty_store_counts(void);
/* The folder; NULL: nothing is kept. */
const char *ty_store_folder(void);

#endif
