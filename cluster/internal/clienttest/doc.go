// Package clienttest has tests only: clients of Redis use a cluster of three real processes, as their users would.
//
// Each client finds the leaders by itself. It writes and reads, follows a leadership that moves, and
// continues when a leader is killed. Clients in other languages are scripts in testdata. Such a script prints
// "transfer KEY" or "kill KEY" when it wants the leader of a key to change; the test does that and answers with a
// line. The script prints "ok" after its last check.
package clienttest
