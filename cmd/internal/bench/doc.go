// Package bench is what the programs that measure share: the values they write,
// numbers as people read them, and the memory of the process.
package bench
