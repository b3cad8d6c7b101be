// Package console is what a peer tells people: the status document and how it
// is drawn on a terminal. It owns names and layout; the router fills in the
// values. It knows nothing else of Banyan.
//
// C1: field names of the status document never change; new ones may come.
// C2: an unknown value is null in the document and "-" in a table, never 0.
package console
