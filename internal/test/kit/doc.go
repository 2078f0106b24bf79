// Package kit is shared by the tests of the public API: stores on disks in memory, options that only tests set, checks
// of one entry, and loops over seeds.
package kit
