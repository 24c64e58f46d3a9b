// Package zoo keeps the classic bugs of storage engines alive, to show that the
// tests of this module would find them.
//
// Each bug was seen in some other store, or in this one. It is kept as a patch of the store's code,
// a few lines that bring it back, with the tests of the ordinary suite that must fail then. A patch
// is never applied to the checkout: it goes to the compiler as an overlay (go help build,
// -overlay), so the released code does not contain it. Bugs are also planted in module cluster, which go.work joins to this one.
//
// A bug counts as caught when the planted code compiles, the named tests fail and say so in words
// that show that they saw this bug, and the same tests pass without it. A patch whose old text is
// not in the code exactly once fails the zoo: a change of that code must update the patch.
//
// Every run of the tests applies and compiles all patches, and plants a few of them; with -zoo.all
// all are planted, with -zoo.bugs those named. The package has only tests, and no package imports
// it. docs/reliability-runs.md lists the bugs.
package zoo
