// Package disktest holds the tests that need a real disk to be full, cut, failing or without power;
// they mount small ones of their own.
package disktest
