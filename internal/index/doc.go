// Package index maps the hash of a key to the address of its record. It knows no keys, no files and no log.
// A look-up of a hash returns every address that was entered under it; the caller reads the keys there, and
// takes the one with its own.
//
// A Table is split by hash into shards. A shard is an array of twelve-byte slots, in which the
// entries are in the order of their hashes, each as near to its home, the place that is in
// proportion to its hash, as those before it allow (linear probing with ordered keys: Amble and
// Knuth, "Ordered hash tables", 1974). So
//
//   - a search ends at the first larger hash, and stays short in an array that is
//     seven eighths full;
//   - a shard grows by an eighth, in one pass from front to back, without reading any
//     key; it does so alone and within its own lock, so no operation pays for the
//     whole table, and the memory is never much more than the entries need;
//   - nothing is a pointer, and large arrays are not on the heap: the garbage
//     collector neither looks at them nor counts them.
//
// Each entry counts under a number, the schema of its record, and a shard knows how many entries it has of each.
// They change under the same lock, so a shard and its counts can be copied together.
//
// The entries of a table may be elsewhere at first: see Defer. The first look-up in a shard then brings it in, and
// returns the error if that fails. A caller looks an entry up before it enters, replaces or removes it, so those
// functions have no error.
package index
