// Package damage damages a database on purpose and classifies the results. Only tests import it. It works on files and
// bytes, and opens the store with a function that the test passes. Its own tests have every damage of small databases,
// hostile and forged files, and links in place of files.
//
//	Image ──► Flips, Sectors, Cuts, Missing, Swaps ──► Harm ──► Driver.Run ──► Outcome
//	(files)   (every way to damage it, in order)       (one)    (open, read all)
//
// An Image has the files of one directory. The generators enumerate damage without sampling: they flip
// every bit, cut a file to every length, overwrite every 512-byte sector in five ways, remove every
// file and swap every two files. Driver.Run opens the damaged image in an in-memory file system. It
// reads each stored key, absent keys, and all entries with an iterator forward and backward.
//
// # Outcomes
//
//	Correct  all entries read are those written
//	Refused  an error that says what is wrong, and no wrong answer
//	Unclear  an error that is neither corruption nor a missing file
//	Silent   a wrong answer: a value that was not written, a missing or additional
//	         key, an iterator that ends early without an error
//	Panic    a panic in the goroutine that reads. A panic elsewhere ends the process
//	         and so fails the test too
//	Hang     more file operations than the driver allows, or more steps of an
//	         iterator than there can be keys. The driver counts and does not measure
//	         time. The time limit of the test ends other endless loops
//	Memory   more bytes allocated than 64 MiB plus eight times the size of the image
//
// # Tables with valid checksums
//
// Checksums detect random damage. A Forge writes tables with valid checksums and invalid contents, which test the
// checks after the checksums. It divides an intact table into its numbers and byte strings, and joins it again with
// some of them changed. Among the sites are the restart interval of each block, the length of a key and the number of
// entries. Forge.Restructured changes the structure instead: empty blocks, entries that are repeated or swapped,
// handles that are repeated, overlap or go backward, and decompression bombs.
package damage
