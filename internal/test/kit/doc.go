// Package kit is shared by the tests of the public API: stores on disks in memory, options that
// only tests set, checks of one entry, and loops over seeds.
//
// COPAL_LONG=1 adds values of up to 1 GiB and more seeds. COPAL_TEST_MEMORY is the memory of
// stores, in bytes.
package kit
