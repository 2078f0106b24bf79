// Package crash tests the public API after the death of the process and the loss of power, on
// failing and full disks, and on damaged files.
package crash
