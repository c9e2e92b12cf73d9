// An echo server: its argument is the address.
package main

import (
	"io"
	"net"
	"os"
)

func main() {
	listener, err := net.Listen("tcp4", os.Args[1])
	if err != nil {
		panic(err)
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			io.Copy(connection, connection)
			connection.Close()
		}()
	}
}
