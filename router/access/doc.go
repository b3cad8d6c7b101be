// Package access decides who may come in at a peer's two listeners, and keeps
// their connections: keys, certificates, tenants, the guards before clients and
// operators, places for connections. It knows no replica, no policy and no mesh;
// what is in force it asks for at every request and handshake (Doors.Rules).
//
// A1: a key file holds hashes alone; keys are compared in constant time, all of
// them.
//
// A2: a key binds its tenant. Two tenant headers are refused, and where tenants
// are kept apart only paths are served that keep them apart.
//
// A3: who stands before the operators' listener is asked for the name it was
// called by, where a browser was sent from, and the key, in this order; health
// checks alone need none of it.
//
// A4: a listener never stops speaking TLS while it runs.
//
// A5: where connections have no place left, an idle one makes way, first of
// addresses that hold more than a quarter of the places.
//
// A6: pages of listed origins alone may read what the clients' listener answers;
// a browser's preflight, which carries no key, is answered here and goes no
// further.
package access
