// Package tx tests the public API: transactions, updates, batches and deletions of ranges.
package tx
