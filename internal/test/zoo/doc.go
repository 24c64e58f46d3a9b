// Package zoo keeps the classic bugs of storage engines alive, to show that the tests of this module would find them.
//
// Each bug was seen in some other store, or in this one. It is kept as a patch of the store's code, a few lines that
// bring it back, with the tests of the ordinary suite that must fail then. A patch is never applied to the checkout: it
// goes to the compiler as an overlay (go help build, -overlay), so the released code does not contain it. Bugs are also
// planted in module cluster, which go.work joins to this one.
//
// A bug counts as caught when the planted code compiles, the named tests fail and say so in words
// that show that they saw this bug, and the same tests pass without it. A patch whose old text is
// not in the code exactly once fails the zoo: a change of that code must update the patch.
//
// Folder bugs has a text file for each number, with its variants:
//
//	bug B10b: a compaction drops tombstones that hide what a snapshot keeps
//	seen: LevelDB 184
//	test: internal/work/compact TestEveryEntryHasItsFate
//	says: stratum:1
//	file: internal/work/compact/retention.go
//	-	case e.stratum == 0 && !e.covers:
//	+	case !e.covers:
//
// A test is named after the folder of its package; a slash and a pattern of subtests can follow the name, then flags
// that keep the test short. Its output must contain what "says" says: a test that fails for another reason has seen
// nothing. If that begins with "panic:" or "fatal error:", the test must die of it; otherwise it may not die. A patch
// has whole lines as a diff has them; further files, and other places of the same file, each need a line "file" of
// their own. A comment begins with #.
//
// Every run of the tests applies and compiles all patches, and plants a few of them; with -zoo.all
// all are planted, with -zoo.bugs those named. The package has only tests, and no package imports
// it. docs/reliability-runs.md lists the bugs.
package zoo
