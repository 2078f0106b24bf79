// Package turns keeps a processor free for short calls while long ones run.
//
// Go's scheduler looks at the network where a processor is idle, and otherwise each ten milliseconds. As many long
// calls as there are processors therefore delay each short call by that. Long calls take turns here: three fewer than
// GOMAXPROCS, and at least one, run at a time, each for some milliseconds, user by user. A server sets GOMAXPROCS to
// two more than it has processors. So there is one left for short calls when the store works in the background and
// when a system call takes long, which the scheduler notices late, and the operating system divides the processors.
//
// The turns belong to the process. In a bubble of testing/synctest only one test at a time may use them.
package turns
