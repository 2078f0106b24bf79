// Package order keeps keys in order: immutable runs of sorted keys, in files, under a tree of what has changed since.
//
// A set of keys is a stack of layers. Each layer says of some keys that they are there, or gone; it is silent
// on all others. Of the layers that speak of a key, the newest is right. So a change is one mark in the newest
// layer, whatever the size of the set, a mark that is made twice is made once, and a layer that changes no more
// can be read without a lock, written to a file, and merged with the one below while others go on above it.
//
// Two kinds of layers are there: Tree, in memory, to which marks are added and of which a copy that stands
// still costs nothing; and Run, sorted blocks in a file or in memory, made once by a Writer. Walk goes through
// a stack of them, up or down.
//
// Keys are bytes, compared as bytes; what they mean is the caller's business. The package opens no files, and
// knows no entries: what a key stands for has to be looked up elsewhere. (Addresses of records would change
// with each overwrite and each compaction; keys come and go much less often.)
package order
