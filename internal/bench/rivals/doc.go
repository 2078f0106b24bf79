// Package rivals has the stores of bytes that copal is compared with, and copal as one of them,
// with one interface. The table of bench/, copal bench and copal study use it.
//
// Each store is used in the fastest way of its documentation, and without its log messages.
// Settings other than its defaults are in its favour. Only commands import this package, because it
// links third-party modules.
package rivals
