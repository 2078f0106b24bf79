// Package keyhash is the hash by which a store knows its keys, in memory and on disk: the same key has the same hash in
// every process that opens the store, on every machine.
//
// It is wyhash, final version 4 (Wang Yi, https://github.com/wangyi-fudan/wyhash, public
// domain): a multiplication of 64 by 64 bits for every 16 bytes, whose halves are folded
// into each other. A Seed makes it a store's own, so that keys which collide in one store do not in
// the next. It is no defence against an attacker that knows the seed; a collision costs a look at a key and no more.
//
// Its results are in files. They never change within a version of the format.
package keyhash
