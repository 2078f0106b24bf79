// Command hello is what a program weighs that does nothing.
package main

import "fmt"

func main() { fmt.Println("hello, world") }
