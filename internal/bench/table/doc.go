// Package table compares copal with the alternatives of a program: maps in memory, other embedded
// stores, plain files. It makes one table of ratios, each of things that were measured in turn, in
// one process, on one machine, and beside each ratio the goal of copal.
//
// A workload checks its reads, and one that finds a wrong value ends the run; so does any error. A
// goal that is missed does not: the table is a report.
//
// Left out are tests that fail when something is slow, and comparisons at unequal durability
// without a note.
package table
