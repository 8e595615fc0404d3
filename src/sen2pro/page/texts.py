"""The examples to click."""

TOPICS = """\
A young man plays the guitar on a street corner.
On the corner of the street, a guitarist is performing.
The violinist tuned her instrument before the concert.
Somebody is doing something musical at some place or other.
Heavy rain is expected along the coast late tonight.
Late tonight the coastal region will see much rainfall.
Snow closed the mountain pass for three days in January.
There may be a bit of that weather later on.
The bank raised its interest rate again this year.
This year, borrowing money at the bank became dearer again.
Shares of the carmaker fell by four percent on Monday.
They have put that up again, as they always do.
Simmer the tomatoes with garlic until the sauce is thick.
Cook tomatoes and garlic gently for a thick sauce.
Knead the dough for ten minutes and let it rise overnight.
Leave it all in there for as long as it takes."""

QUESTIONS = """\
How do I reset my password?
I forgot my login, what now?
My account is locked after three wrong passwords.
Where can I change my e-mail address?
When will my parcel arrive?
The tracking number you sent does not work.
Can you deliver to a parcel locker in Graz?
My order has not come yet.
How do I send back shoes that do not fit?
I want my money back.
Is the return label free of charge?
The jacket came with a broken zip.
Do you have this lamp in green?
What are the measurements of the oak table?
Is the bread knife dishwasher safe?
It does not work.
Can you help me with something?
I have a question about that."""

FAQ = """\
To reset your password, open Settings, choose Security, and follow the link that we send you.
We ship to all of Europe within five working days; the tracking number comes by e-mail.
You may send back any item within thirty days. The label for it is free.
Our office is in Lyon, next to the station, and is open from nine to five.
Invoices are in your account below Orders, as PDF files.
You can pay by card, by bank transfer, or on delivery.
To close your account, write to us from the address that it is registered with."""

NEWS = """\
sport: The match ended in a draw after extra time.
sport: She won the final set in a tie-break.
sport: Their striker scored twice in the first half.
sport: The coach praised his goalkeeper.
money: Shares of the carmaker fell on Monday.
money: The bank raised its interest rate again.
money: Profits rose by a tenth this quarter.
money: Investors sold government bonds.
weather: Heavy rain is expected along the coast.
weather: Snow closed the mountain pass for days.
weather: It will be sunny and warm on Sunday.
weather: A storm is moving in from the west."""

NEWS_TRIED = """\
The goalkeeper was injured.
Fog will clear by noon.
The club sold its best player for forty million."""

WANTS = """\
password: How do I reset my password?
password: I cannot log in any more.
password: My account is locked.
password: The code for signing in does not come.
delivery: When will my parcel arrive?
delivery: The tracking number does not work.
delivery: My order has not come yet.
delivery: Do you deliver on Saturdays?
return: I want to send these shoes back.
return: Is the return label free?
return: When do I get my money back?
return: The jacket is too small, can I exchange it?"""

WANTS_TRIED = """\
I forgot my login.
Where is my package?
It came broken and too late."""
