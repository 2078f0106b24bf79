// Package study measures ways to keep records in stores of keys and values: which encoding, one
// pair or many, in which engine.
//
// A table keeps records in one way, and one loop measures all tables. Every cell of the study is a
// fresh store that is written, read and updated, and records are compared field by field. A cell is
// repeated, with the others in between, so a passing disturbance of the machine disturbs all.
// docs/study.md has the results.
package study
