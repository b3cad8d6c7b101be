// Package requests remembers what became of requests: one Record a request, the
// decisions behind it, and the lines of the access log.
//
// It owns the fields and words of a record, the rule of what is logged, a
// bounded memory of recent requests (Book) and the queue in front of the log's
// file (Log). It knows no HTTP, no replica and no policy: the router fills
// records in. Record, Rule and the encoders are pure; Log is the one shell.
//
//	Q1: no record holds a word of a prompt or of an answer.
//	Q2: what clients can choose (ids, tenants, models) is cut to MaxWord bytes
//	    and escaped: one request is one line, whatever it was named.
//	Q3: a request never waits for who reads the log: a full queue drops the line
//	    and counts it, and the log says so when it goes on.
//	Q4: a Book holds at most its two sizes of ended requests. Failed, slow and
//	    retried ones are kept apart, so that no number of good ones pushes them
//	    out.
//	Q5: with the log off, remembering a request allocates nothing once the Book
//	    is full.
package requests
