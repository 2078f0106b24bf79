// Package pagetest holds the pages of the formats against the code: their examples, and a reader in
// Python that was written from the pages alone, testdata/reader.
package pagetest
