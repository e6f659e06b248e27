-- Gives a client its number: one that no client ever had.
return format('%d', take('k', 1))
