// Package tidy has no code but tests, of the rules of style that can be checked. CONTRIBUTING.md
// has them in words. A rule that is broken on purpose is changed here, in the same commit.
package tidy
