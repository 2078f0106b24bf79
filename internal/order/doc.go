// Package order keeps keys in order: immutable runs of sorted keys, in files, under a tree of later changes.
//
// A set of keys is a stack of layers. Each layer says of some keys that they are there, or gone; it is silent
// on all others. Of the layers that speak of a key, the newest is right. So a change is one mark in the newest
// layer, whatever the size of the set, a mark that is made twice is made once, and a layer that changes no more
// can be read without a lock, written to a file, and merged with the one below while others go on above it.
//
// There are two kinds of layers. A Tree is in memory, takes marks, and can be frozen at no cost. A Run has sorted
// blocks in a file or in memory, and is made once by a Writer. Walk goes through a stack of them, up or down.
//
// Keys are bytes, compared as bytes; the caller knows their meaning. The package opens no files, and knows no
// entries: the caller looks those up elsewhere. (Addresses of records would change with each overwrite and each
// compaction; keys come and go much less often.)
package order
