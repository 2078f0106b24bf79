package table

import "slices"

// allLines returns the table, in its order.
func allLines(s setting) []line {
	return slices.Concat(
		appendLines(s),
		setLines(s),
		getLines(s),
		uncachedLines(s),
		mixLines(s),
		rawGetLines(s),
		rawWrittenLines(s),
		rawViewLines(s),
		rawPutLines(s),
		rawAllocLines(s),
		valueLines(s),
		batchLines(s),
		transactionLines(s),
		durableLines(s),
		hybridlogLines(s),
		openLines(s),
		memoryLines(s),
		allocLines(s),
		latencyLines(s),
		idleLines(s),
		historyLines(s),
		watchLines(s),
	)
}
