// Package jinja renders the subset of Jinja2 that Hugging Face chat templates
// use, as transformers sets Python's jinja2 up: an immutable sandbox with
// trim_blocks, lstrip_blocks, loop controls, the generation tag, a tojson that
// does not escape HTML, raise_exception and strftime_now.
//
// It owns templates, their values and the text they give. It knows no model,
// no request and no tokenizer. It reads no clock: the time is an argument.
//
// Invariants, each held by the differential test against Python's jinja2 and
// by the inline cases:
//
//  1. What renders here gives Python's text, byte for byte.
//  2. What Python rejects is an error here. What this package does not know is
//     refused, by name: constructs, filters and tests when the template is
//     parsed, attributes and operands when they are met.
//  3. Dicts keep their order, and numbers their kind: 1.0 prints as 1.0.
//  4. Steps, output and depth are bounded by Limits, before work is done
//     (measure). No input makes it panic (FuzzRender).
//
// A Template is immutable: any number of goroutines may render it at once.
package jinja
