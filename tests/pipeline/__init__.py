"""The mind, held to account: each rule by itself, and all of them under thousands of made-up worlds."""
