// Package nemesis shows that a cluster is linearizable while its nodes, disks and network fail. Only tests import it.
//
// Clients send commands in Redis's protocol and record for each command when it began, when it ended, and what is known
// of its outcome. Meanwhile a nemesis cuts links, kills, pauses and restarts nodes, damages files, and changes the
// membership. Then porcupine searches for an order of the commands that explains all replies. If there is none, the
// test fails and leaves a picture of the history.
//
// # What is known of an outcome
//
//   - Done: the reply is what the model must explain.
//   - Not done: the connection was refused, or the error promises it: MOVED, CLUSTERDOWN, LOADING, TRYAGAIN, EXECABORT,
//     MISCONF. The command is not in the history. If it has an effect all the same, a later read has a value that
//     nothing wrote, since no value is written twice.
//   - Unknown: the error is UNKNOWN, or the connection broke or was silent. A write may take effect at any later time,
//     or never. A read says nothing.
//
// # Ages of stale reads
//
// Answers after READONLY are not in the history. One client writes ascending numbers to a key, and an answer is too old
// if a later number than its own had been acknowledged longer than the bound before the question was sent.
//
// # How searches stay short
//
// Keys belong to tags, and a tag is a partition of the history: its keys share a slot, and no command uses two tags.
// Clients work on a few tags at a time. Each Workload.Renew replaces these, so a tag has a few hundred commands,
// however long the test is. After the last fault is healed, all keys of all tags are read once more: what was
// acknowledged early must still be there.
//
// # Seeds
//
// The faults and their order come from a seed that the test prints; -nemesis.seed repeats them. What the clients meet
// also depends on the scheduler, so a failure may need several runs to return.
package nemesis
