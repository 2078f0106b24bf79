// Package chart draws measurements: lines on logarithmic axes and bars of ratios as SVG, and pages
// of them as one HTML file that asks for nothing else. Libraries of charts load a script from the
// network or bring megabytes of fonts, and the pages must be readable anywhere.
//
// The same input always gives the same bytes, so a test can compare a figure with its file. Values
// that an axis cannot show, such as zero on a logarithmic one, are left out of the drawing and are
// in the table below it.
package chart
