// Package built returns the version, the commit and the platform of a program.
package built
