// Package matrix is the evaluation behind `make sim`: which configurations are
// run, and the tables, plots and the page made of their reports.
//
// It owns the list of experiments and how they are told. It does not run
// them: the caller evaluates the cells, in any order and number at a time.
//
// Invariants, each held by a test:
//
//	X1  equal options, equal cells; equal reports, equal pages
//	X2  every cell's report is in the page's tables
//	X3  the page asks for nothing outside itself
//
// Sources: published.go names those of the figures printed beside ours.
package matrix
