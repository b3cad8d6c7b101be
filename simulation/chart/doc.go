// Package chart draws line plots as SVG text: self-contained, without scripts
// or fonts, light and dark by what the reader's system asks for, and narrow
// enough that their letters stay readable on a phone.
//
// It owns scales, ticks and colours. It does not know what is drawn.
//
// Invariants, each held by a test:
//
//	C1  the output is well-formed XML, whatever the names say
//	C2  every point lies inside the frame; what is no number is left out
//	C3  equal plots give equal text
package chart
