// Package elements has the parts that commands of several collections share: the cursors and
// options of the SCAN family, and elements picked at random.
package elements
