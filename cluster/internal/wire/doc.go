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
//   - A connection reaches the node that its dialer wants, or none: a node refuses connections for another node, and
//     its own. With a secret or TLS, a stranger at an address, or between two nodes, can neither act as a node nor read
//     or change what nodes send. It can only interrupt their connections.
//   - Nodes of different clusters do not talk to each other. Only a node that belongs to no cluster yet may make
//     control calls to any.
//   - Without TLS and without a secret, the listener accepts loopback addresses only.
//   - A handshake has a deadline, and a bounded number of connections can be in it: if there are more,
//     the one that has waited longest is closed. No length that a peer sends is trusted with memory.
//   - Close returns when all goroutines of the listener have ended. It waits for handlers, whose
//     context it cancels.
//
// All methods may be called by any goroutine. The handshake of peers, and the records that protect what follows it, are
// described below the package clause of doc.go.
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

// The handshake of peers, version 4.
//
// The dialing node speaks first. Numbers are big-endian. Within TLS, if that is used:
//
//	dialer    magic (8) | version (1) | length (2) | body         the hello
//	listener  status (1) | key (32)                               if the listener has a secret: the status is "prove"
//	dialer    proof (32)
//	listener  status (1) | name | start | proof (32)              only the status if the dialer's proof is wrong
//
// or, if the listener has no secret, after the hello:
//
//	listener  status (1) | name | start
//
//	magic     00 's' 'i' 'e' 'v' 'e' 'd' 0d
//	version   see Version. The answer to another one is the status "version" and the listener's own version (1)
//	body      kind (1) | group (4) | cluster (16) | key (32) | process (16) | name | wanted name | length (2) | address | start
//	kind      1: raft stream of the group; 2: control calls, group 0; 3: confirmations of the
//	          group's leader
//	cluster   the first half of the SHA-256 of the dialer's cluster ID; zeros if it has none yet
//	key       a public key of X25519, which is made for this handshake; that of a dialer without a secret is zeros
//	process   random bytes that a Listener draws when it begins
//	name      length (1) | ID | incarnation (8). The first name is the dialer's. The wanted one is empty if the dialer
//	          knows only an address, as that of --join, and its incarnation is 0 if any will do
//	address   as it was dialed
//	start     number (8) | nonces (32 * 8), of the speaker: see Start
//	status    0: accepted; 1: prove that you know the secret; others: refused, see the constants
//
// The keys and proofs, where | joins bytes, and each part has a fixed length or says its own:
//
//	shared    X25519 of the two keys
//	prk       HKDF-Extract(SHA-256, salt: secret, input: shared)
//	h1        SHA-256("sieved peer" | hello | status | key of the listener | TLS binding)
//	proof     of the dialer: HKDF-Expand(prk, "sieved peer dialer proof" | h1)
//	h2        SHA-256(h1 | proof of the dialer | status | name and start of the listener)
//	proof     of the listener: HKDF-Expand(prk, "sieved peer listener proof" | h2)
//	records   key of each direction: HKDF-Expand(prk, "sieved peer dialer records" | h2), and "... listener records"
//
// The TLS binding is 32 bytes of exported keying material (RFC 5705), or nothing without TLS: with it, a proof
// is worth nothing in another TLS connection. Proofs are compared in constant time. The dialer proves first.
//
// This is TLS 1.3's handshake with an external key and Diffie-Hellman (psk_dhe_ke), of which Noise's NNpsk0 is a
// sibling: fresh keys of both sides, a hash of all that was said, and a proof of each side that covers it. Replays fail
// since both sides choose a key. What was recorded stays secret if the secret becomes known later. Who only listens
// cannot test guesses of the secret; who answers in the place of a node can, so it must not be guessable.
//
// A key that a group shares says only "one of us", and TLS 1.3 with such a key fell to the Selfie attack (Drucker and
// Gueron, 2019; RFC 9257, 4.1): a node's own messages, sent back to it, come from one of us. Version 1 of this
// protocol had that fault, and a stranger at the address of a dead node could also pass a hello on to a node of its
// choice. So both proofs name both nodes and the wanted one, with their roles, and the listener refuses, in this order:
//
//   - a hello of its own process ("self": it was sent back);
//   - one of another cluster;
//   - one with its own ID ("twin": two processes have a copy of one directory, or one ID was given twice);
//   - one that wants another ID, or another incarnation. Streams of raft and of confirmations name both. Control calls
//     name the ID of a node that is in the map, and no incarnation, because nodes learn of new ones by them;
//   - one that wants any node at an address, if the listener knows that as the address of another node;
//   - one whose start does not follow the last one that the listener knows of the node ("rolled back"): an older copy of
//     its directory, without votes and entries on which others count, is in the place of its own.
//
// The dialer in turn refuses a listener that is not the wanted one, has its own ID, or was rolled back.
//
// A node that joins knows only addresses. A listener cannot know all addresses under which it is reached, because of
// names, proxies and address translation. So it accepts a call to an address that belongs to no node that it knows. A
// machine in between may have passed the call on. Like a cable, that machine sees when and how many bytes are sent. It
// can interrupt the connection, and choose which node of the cluster answers. It can neither read nor change anything,
// because it does not have the keys of the records, and the dialer learns the true name of the listener.
//
// Without a secret and without TLS, the same names are checked. That helps against mistakes, and not against strangers.
//
// Records.
//
// After the handshake, if there is a secret and no TLS, each direction is a sequence of records:
//
//	length (2), of what follows | sealed bytes
//
// They are sealed by AES-256-GCM. The nonce is 4 zeros and the number (8) of the record in its direction, from 0; the
// length is the additional data. After each 2^20 records, the next key is HKDF-Expand(key, "sieved peer next key"). A
// record has at least one byte, and at most 65519. So records that were altered, repeated, reordered, left out, sent
// back or cut are errors. The end of a connection between records is not told apart from a cut there: calls, streams
// and messages of raft each know where they end. Encryption comes free: AES-GCM takes from 0.3 to 0.7 of the time of a
// MAC alone, HMAC-SHA256; see BenchmarkSeal.
