// Package rivals has the stores of bytes that copal is compared with, and copal as one of them,
// behind one interface. Whatever measures them, measures them by it: the table of bench/, copal
// bench and copal study.
//
// Each store is used as its documentation says it is fast, and without its log messages. What it is
// given beyond its defaults is in its favour. Only commands import this package, for it brings other
// people's modules with it.
package rivals
