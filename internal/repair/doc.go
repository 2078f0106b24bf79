// Package repair judges a log, and mends it. Check reads every byte of it, beside a process that
// writes or none, and goes on behind damage. Repair makes a new store of every intact record. Both
// read files as package seglog does, and know of keys and values only what their records say.
package repair
