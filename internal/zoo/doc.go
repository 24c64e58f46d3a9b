// Package zoo keeps the classic bugs of storage engines alive, to show that the
// tests of this module would find them.
//
// Each bug was seen in some other store, or in this one. It is kept as a patch of
// our own code, a few lines that bring it back, beside the tests of the ordinary
// suite that must fail then. A patch is never applied to the checkout: it goes to
// the compiler as an overlay (go help build, -overlay), so that what is shipped
// knows nothing of it.
//
// A bug counts as caught when the planted code compiles, the named tests fail and
// say so in words that show that they saw this bug, and the same tests pass
// without it. A patch whose old text is not in the code any more, exactly once,
// fails the zoo: whoever changed that code brings the patch up to date.
//
// Every run of the tests applies and compiles all patches, and plants a few of
// them; with -zoo.all all are planted, with -zoo.bugs those named. The package
// has nothing but tests, and nobody imports it. docs/bugzoo.md lists the bugs.
package zoo
