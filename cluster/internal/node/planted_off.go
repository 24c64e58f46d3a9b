//go:build !sieved_planted

package node

// planted takes the mends of two faults out, so that tests can show that they find these. It is set by the build tag
// sieved_planted, and is a constant so that no other build has the code.
//
//   - A leader of group 0 plans on its own copy of the map, without asking anyone whether it still leads, and its plans
//     are carried out.
//   - A node without a directory creates a cluster, and stays in it.
const planted = false
