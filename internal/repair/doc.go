// Package repair judges a log, and mends it: Check reads every byte of it, beside a process that writes or
// none, and goes on behind what is damaged; Repair makes a new store of every intact record. It reads files
// as package seglog does, and knows nothing of keys and values but what their records say.
package repair
