// Package checkpoint is the index in a file, of whose truth nobody is sure: its text, the places of its parts,
// and their checksums. What a table is, when a snapshot is taken and what one that was found means for a store
// is the engine's business.
//
// A snapshot of the index is the index of a moment, in a file that the manifest names. Opening the store reads
// no more of the log than what has come since. It is derived from the log, and is worth no more than the
// time that it saves; a snapshot that does not match the log in every respect, or cannot be read, is as none.
//
// The file begins with one line, padded with spaces to Head bytes, which says where
// its text stands. Between the two are the entries of the index, in parts of which the text has the
// places, lengths and checksums. So the text is all that is read and verified at once, and it is as long as there are
// segments, tables and shards; a part is read and verified when somebody first asks for an entry in it.
//
// A snapshot is taken while writers go on. So each entry is as it was at some moment after the snapshot was
// begun. What it covers of a segment is what the segment held when it was begun: what came later is replayed at
// the next opening, and the sequence numbers tell what the index knows already. The text says how far an entry
// may be ahead (reach); the log is durable up to there before the file gets its name.
package checkpoint
