// Package table compares copal with what a program could use instead: maps in memory, other
// embedded stores, plain files. It makes one table of ratios, each of things that were measured in
// turn, in one process, on one machine, and beside each ratio what copal is to reach.
//
// A workload checks what it reads, and one that finds something else than was written ends the run;
// so does any error. A goal that is missed does not: the table is a report.
//
// What is not here: tests that fail when something is slow, and comparisons at unequal durability
// without a word about it.
package table
