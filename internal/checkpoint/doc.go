// Package checkpoint is the file of an index, which may be damaged: its text, the places of its
// parts, and their checksums. The engine knows the meaning of the tables, when to take a snapshot,
// and how to use one.
//
// A snapshot of the index is the index of a moment, in a file that the manifest names. Opening the
// store reads only the later part of the log. It is derived from the log, and is worth no more than
// the time that it saves; a snapshot that does not match the log in every respect, or cannot be
// read, is as none.
//
// The file begins with one line, padded with spaces to Head bytes, which has the place of its text.
// Between the two are the entries of the index, in parts of which the text has the places, lengths
// and checksums. So only the text is read and verified at once, and its length is in proportion to
// the number of segments, tables and shards; a part is read and verified at the first look-up in
// it.
//
// A snapshot is taken while writers go on. So each entry has its state of some moment after the
// snapshot was begun. The snapshot covers the part of a segment that existed when it was begun:
// later records are replayed at the next opening, and their sequence numbers show which of them the
// index has already. The text has the greatest number that an entry may have (reach); the log is
// durable up to there before the file gets its name.
package checkpoint
