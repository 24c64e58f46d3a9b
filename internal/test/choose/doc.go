// Command choose prints the arguments with which go test runs some tests of some packages, so that the Makefile has no
// list of their names. The kinds are:
//
//	race   tests that use goroutines: see below
//	NAME   tests with the line //make:NAME in the comment above them
//
// It is called with a kind and the patterns of packages, as in
//
//	go test -race -short $(go run ./internal/test/choose race ./...)
//
// and with -why it prints a line for each test instead, with the reason.
//
// A test uses goroutines if its code has a go statement, or calls Go or t.Parallel. Its code is that of the test, and
// everything that it mentions in the tests of its package and in packages for tests: functions, variables, and those
// methods of types that are called. Names are compared, not types. So a test can be chosen because a method that it
// calls has the name of another one, but none is missed because of that.
//
// It also uses goroutines if the test, or a function of its code, uses a channel or the packages sync and sync/atomic.
// It would not need them if it shared nothing with other goroutines, such as those of the store. sync.Once and its
// relatives do not count, because they are for what is made once. Locks in types and methods do not count either:
// helpers have them for those tests that share the helpers.
//
// Tests that run the go command, or whose TestMain does, are left out, because the race detector does not see the
// programs that they build. So are those whose code has a function with the line //race:clock in the comment above it.
// That is for helpers with timeouts that a program ten times slower does not meet, such as a cluster under load in
// which leaders are elected. The line //race:long does the same, for helpers whose tests judge thousands of states
// after a short concurrent part that other tests have too.
//
// A function with the line //race:apart in the comment above it starts goroutines that share nothing and only use all
// processors, such as those of a helper that tries thousands of cases. It is no reason to choose a test: under the race
// detector such tests take minutes and show nothing. A test cannot be marked so, but only a helper.
package main
