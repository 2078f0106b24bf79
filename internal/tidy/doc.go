// Package tidy has no code but tests: of all that can be checked about the style of the
// repository. What they say is in CONTRIBUTING.md in words; a rule that is broken on
// purpose is changed here, in the same commit.
package tidy
