// Package wire is the one listener of a node. Clients, the raft streams of all groups and the control
// calls between nodes arrive at the same address; the first byte of a connection decides.
//
// # What it promises
//
//   - A connection whose first byte is not 0x00 is a client's. It appears at Clients with all of its
//     bytes. No command of RESP begins with 0x00. A connection that is silent until the deadline of
//     handshakes is a client's too, because peers speak at once.
//   - A connection of a peer reaches a group or a handler only after the peer is authenticated: by a
//     certificate of the cluster's CA if there is TLS, and by the shared secret if there is one.
//   - Nodes of different clusters do not talk to each other. Only a node that belongs to no cluster yet may make
//     control calls to any.
//   - Without TLS and without a secret, the listener accepts loopback addresses only.
//   - A handshake has a deadline, and a bounded number of connections can be in it: if there are more,
//     the one that has waited longest is closed. No length that a peer sends is trusted with memory.
//   - Close returns when all goroutines of the listener have ended. It waits for handlers, whose
//     context it cancels.
//
// All methods may be called by any goroutine.
//
// # The handshake of peers
//
// The dialing node speaks first. Numbers are big-endian. Within TLS, if that is used:
//
//	dialer    magic (8) | version (1) | kind (1) | group (4) | cluster (16) | nonce (32)
//	listener  status (1) | nonce (32)
//	dialer    proof (32)                     if the status is "prove"
//	listener  status (1) | proof (32)        if the status was "prove"
//
//	magic     00 's' 'i' 'e' 'v' 'e' 'd' 0d
//	version   1
//	kind      1: raft stream of the group; 2: control calls, group 0; 3: confirmations of the
//	          group's leader
//	cluster   the first half of the SHA-256 of the dialer's cluster ID; zeros if it has none yet
//	status    0: accepted; 1: prove that you know the secret; others: refused, see the constants
//	proof     HMAC-SHA256(secret, role | all that was sent so far without proofs | TLS binding)
//
// The role is "sieved peer dialer" or "sieved peer listener", so that no proof can be sent back to its
// maker. The TLS binding is 32 bytes of exported keying material (RFC 5705), or nothing without TLS:
// with it, a proof is worth nothing in another TLS connection. Proofs are compared in constant time.
// The dialer proves first, so that strangers cannot collect proofs to guess the secret offline.
//
// A secret without TLS keeps strangers out. It does not stop those who can read or alter the traffic:
// what follows the handshake is then neither encrypted nor authenticated.
//
// # Control calls
//
// After the handshake of kind 2, both sides send frames:
//
//	length (4), of what follows | type (1) | payload
//
//	'C' call, 'S' call that is answered by a stream: a JSON object with method, timeout in ms, body
//	'R' result of a call: JSON
//	'D' data of a stream; 'E' its good end, without a payload
//	'F' failure: a JSON object with code, text, and for "not-leader" the group and leader
//
// A connection has one call at a time. A stream without 'E' at its end was cut, and its reader gets an error.
package wire
