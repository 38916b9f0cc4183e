/*
** file_csv.h -- tables in text: fields between delimiters, rows between line ends (RFC 4180).
** In: a file. Out: the columns' names and kinds, the number of rows, numbers where the caller wants
** them, and a cursor over the fields for all else.
**
** Order of calls: ty_csv_open; the caller sets `kind` of columns; ty_csv_rows; ty_csv_guess; then
** ty_csv_parse with `to` of the numeric columns set, again as long as it answers CSV_AGAIN
** (once, at most); ty_csv_close.
*/
#ifndef TY_FILE_CSV_H
#define TY_FILE_CSV_H

#include "file/file.h"

/* What a column becomes. Kinds that were guessed move to the right when a field does not fit. */
typedef enum { CSV_AUTO, CSV_BOOL, CSV_I64, CSV_F32, CSV_F64, CSV_TEXT, CSV_SKIP } CsvKind;

typedef struct CsvColumn {
  u8 kind;    /* CsvKind */
  u8 least;   /* the first kind that holds what stands for its missing values */
  bool words; /* a true or false was seen: numbers make it text */
  bool fixed; /* the user said so: what does not fit is an error */
  char *to;   /* the element of row 1; NULL: only looked at */
  char *kept; /* `to`, while rows are only looked at */
  i64 stride; /* bytes from row to row */
} CsvColumn;

/* A field: what stands between delimiters, or between the quotes. */
typedef struct CsvField {
  char *p;
  i64 n;
  bool quoted, doubled; /* doubled: "" stands in it for " */
} CsvField;

typedef struct CsvCursor {
  char *p;
  i64 line, row; /* of the file, from 1; of data, from 0 */
  bool ended;
} CsvCursor;

typedef struct CsvOptions {       /* zero: to be found out */
  char delimiter, point, comment; /* point: '.' when 0 */
  i8 header;                      /* -1: find out; 0, 1 */
  i64 skip;                       /* lines before the header */
  const char *missing;            /* spellings, each ended by NUL, the last by two */
  bool strict;                    /* a missing number is an error */
  double fill;                    /* what a missing number becomes */
  u8 floats;                      /* CSV_F32 or CSV_F64: numbers that are not whole */
  bool plain;                     /* numbers become `floats`, whole or not, wanted so */
} CsvOptions;

typedef struct Csv {
  File *f;
  CsvOptions o;
  char *text, *end; /* owned, *end is NUL */
  CsvCursor head, body;
  bool quotes; /* there are some */
  bool stops[256];
  i64 rows;
  bool known; /* all rows have been looked at: they can be stored */
  bool gone;  /* parts of the text were given back: it must be read again */
  int columns;
  CsvColumn *column; /* owned */
} Csv;

#define CSV_COLUMNS 65536
/* Bytes that may be stored before all rows are known to be good, beside the text: with what else a
** reader needs FILE_SPARE holds. */
#ifndef CSV_STORED /* fuzzers have little */
#define CSV_STORED ((i64)44 << 20)
#endif
#define CSV_TEXTS ((i64)1 << 26) /* rows that a list of texts may have */

/* Reads the file, finds delimiter, header and columns. false: f->err. */
bool ty_csv_open(Csv *c, File *f, const CsvOptions *o);
void ty_csv_close(Csv *c);
/* Counts rows. false: a quote that is not closed, or the file cannot hold as many fields as that
** many rows need: a row is too short, and f->err says which. */
bool ty_csv_rows(Csv *c);
/* Gives columns of kind CSV_AUTO the kind of their first rows. */
bool ty_csv_guess(Csv *c);
/* Whether the lists of texts can have as many rows; false: f->err. */
bool ty_csv_texts_fit(const Csv *c);
typedef enum { CSV_FAILED, CSV_DONE, CSV_AGAIN } CsvResult;
/* Stores all numbers, in memory that a bad file has not cost (see CSV_STORED). CSV_AGAIN: guessed kinds have changed; the new ones hold for all rows. */
CsvResult ty_csv_parse(Csv *c);

/* The next row begins: false at the end. Then the fields of the row, one by one: the answer is 1
** while more follow, 0 for the last of the row, -1: f->err. */
bool ty_csv_next(const Csv *c, CsvCursor *at);
int ty_csv_field(const Csv *c, CsvCursor *at, CsvField *y);
/* Undoes doubled quotes in place, once. */
void ty_csv_unquote(CsvField *x);
/* A field of column j in a message: line, column, name. */
bool ty_csv_fail(const Csv *c, i64 line, int j, const CsvField *x, const char *what);

#endif
