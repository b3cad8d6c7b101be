// Package console is what a peer tells people: the status document, how it is
// drawn on a terminal, and the console page with its live feed. It owns names,
// words and layout; the router fills in the values and tells it of every
// decision. It knows nothing else of Banyan.
//
// C1: field names of the status document never change; new ones may come.
// C2: an unknown value is null in the document and "-" in a table, never 0.
// C3: the page reads without JavaScript, loads nothing from elsewhere, and all
// of its files together stay within MaxAssetBytes.
// C4: names of replicas, peers and models are outside input: they reach a page
// only escaped by html/template or as text nodes.
// C5: decisions and events are kept in rings of fixed size; neither holds
// prompt text or header values.
// C6: at most maxWatchers feeds run; each ends with its client or with Close,
// and a client that does not read is cut off after writeLimit.
//
// The page's own words are made here and not in its script: `GET /v1/watch?draw`
// sends rows as the page shows them, so first state and live state are alike.
package console
