// Package turns keeps a processor free for short calls while long ones run.
//
// Go's scheduler looks at the network where a processor is idle, and otherwise each ten milliseconds. As many long
// calls as there are processors therefore delay each short call by that. Long calls take turns here: two fewer than
// GOMAXPROCS, and at least one, run at a time, each for some milliseconds, user by user. The store's own work in the
// background takes turns, too. One of the other two is for short calls. A system call may have the other for up to ten
// milliseconds until the scheduler notices, so a server sets GOMAXPROCS to one more than it has processors.
package turns
