// Package damage damages a database on purpose and classifies the results. Only tests import it. It
// knows file systems and bytes, not the store: a test hands it a function that opens one.
//
//	Image ──► Flips, Sectors, Cuts, Missing, Swaps ──► Harm ──► Driver.Run ──► Outcome
//	(files)   (every way to damage it, in order)       (one)    (open, read all)
//
// An Image is the files of one directory. The generators enumerate damage without sampling: every
// bit, every length, every 512-byte sector in four ways, every file gone, every two files swapped.
// Driver.Run opens the damaged image in an in-memory file system and reads it in every way: each
// stored key, absent keys, an iterator forward and one backward.
//
// # Outcomes
//
//	Correct  everything read is what was written
//	Refused  an error that says what is wrong, and no wrong answer
//	Unclear  an error that is neither corruption nor a missing file
//	Silent   a wrong answer: a value that was not written, a key that is missing or
//	         too many, an iterator that ends early without an error
//	Panic    a panic, in the goroutine that reads; one elsewhere ends the process,
//	         which no test passes either
//	Hang     more file operations than the driver allows, or more steps of an
//	         iterator than there can be keys. It is counted, not timed; an endless
//	         loop without either is left to the test's own time limit
//	Memory   more bytes allocated than 64 MiB and eight times the image's size
//
// # Tables with good checksums
//
// Chance damage stops at the checksums. A Forge writes tables whose checksums
// are right and whose contents are not: it takes a sound table apart to its
// numbers and byte strings, and puts it together again with some of them changed,
// so that what the checksums protect is tested. Forge.Restructured
// changes the structure instead: empty blocks, entries that repeat or change places, handles
// that repeat, overlap or go backward, bombs.
package damage
