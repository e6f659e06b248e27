-- Gives a client its number: one that no client ever had.
return format('%.0f', take('k', 1))
